# convs2s for people without Python, on a CPU: its commands, training with fairseq, and the demo.
#
#   docker build --tag convs2s .
#   docker run --rm -v "$PWD:/work" --user "$(id -u)" convs2s translate --path prepared --input new.de --output new.en
#   docker run --rm -p 127.0.0.1:8000:8000 convs2s serve --model multi30k-de-en --host 0.0.0.0
#   docker run --rm -v "$PWD:/work" --user "$(id -u)" --entrypoint python convs2s /opt/examples/demo/run.py

FROM python:3.11-slim AS build
# The build of torch for CPUs; an empty value takes the one of the default index.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
WORKDIR /src
COPY . .
RUN python -m venv /opt/convs2s
RUN PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt /opt/convs2s/bin/pip install ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} torch==2.13.0 '.[fairseq,text,plot,serve,demo]'

FROM python:3.11-slim
COPY --from=build /opt/convs2s /opt/convs2s
COPY examples /opt/examples
COPY models /opt/models
# Any user can be chosen with --user, also one without a name, and writes to the folder that is mounted at /work.
ENV PATH=/opt/convs2s/bin:$PATH HOME=/work USER=convs2s
ENV CONVS2S_MODELS=/opt/models XDG_CACHE_HOME=/tmp/cache
WORKDIR /work
RUN chmod 777 /work
USER 1000
EXPOSE 8000
ENTRYPOINT ["convs2s"]
CMD ["--help"]
