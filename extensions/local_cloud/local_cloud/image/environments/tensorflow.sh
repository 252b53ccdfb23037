# The Keras that tf.distribute supports (TF_USE_LEGACY_KERAS=1). It requires the package tensorflow, so pip would add the build with CUDA.
pip install --quiet --no-deps tf_keras==2.21.0
